"""Views: what the statistic `Spectral` sees points through.

A view is a map from points to a few features. It is fitted on the pooled points without labels, so
no shuffle changes it. Views of one kind come as a stack, which computes all of them at once: one
view for each column, for each pair of columns, or for each width of a kernel.

joint     all columns together: landmarks of kernels, clusters, and the columns as they are
column    each column alone: its values, its shape, its levels
pair      each two columns: how they go together
triple    each three columns: products only
pixels    images: all pixels together, and each pixel alone
patches   images: small filters, taken from the images themselves, textures, and tones
own       what a user brings: a network, a transformer, any kernel
"""

from .base import Atom as Atom
from .base import Family as Family
from .base import Layout as Layout
from .base import Pooled as Pooled
from .base import Seen as Seen
from .base import View as View
from .clusters import Clusters as Clusters
from .columns import Levels as Levels
from .columns import Marks as Marks
from .columns import Means as Means
from .columns import Overall as Overall
from .columns import Positions as Positions
from .columns import Shapes as Shapes
from .columns import Together as Together
from .columns import Values as Values
from .groups import Cells as Cells
from .groups import Dependence as Dependence
from .groups import Products as Products
from .groups import Waves as Waves
from .groups import combinations as combinations
from .images import Patches as Patches
from .images import Pixels as Pixels
from .images import Textures as Textures
from .images import Tones as Tones
from .landmarks import Landmarks as Landmarks
from .landmarks import Scatter as Scatter
from .own import Features as Features
from .own import LandmarksOf as LandmarksOf
from .scores import NormalScores as NormalScores
from .scores import bumps as bumps
from .scores import correlations as correlations
from .scores import ranks as ranks
from .scores import tail_weights as tail_weights
from .scores import waves as waves
from .views import Views as Views
